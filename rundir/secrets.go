package rundir

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Redacted replaces a secret.
const Redacted = "REDACTED"

// A value of minSecret bytes or more is replaced everywhere. A value of minWord bytes or more is replaced only as a
// whole word, and only if it has characters other than letters. Shorter values are too common in other texts.
const (
	minSecret = 6
	minWord   = 4
)

var (
	secretName = regexp.MustCompile(`(?i)authorization|cookie|token|secret|passw(or)?d|passphrase|passcode|credential|jwt|bearer` +
		`|(api|access|private|signing|encryption|session|shared|master|account|auth|ssh|deploy|license)[-_. ]?key` +
		`|connection[-_]?string|conn[-_]?str|(database|db|redis|mongo(db)?|postgres(ql)?|mysql|amqp|rabbitmq|broker|sentry|webhook)[-_]?(url|uri|dsn)`)
	nameWord = regexp.MustCompile(`[A-Z]+(?:[^A-Za-z0-9]|$)|[A-Z]?[a-z]+|[A-Z]+|[0-9]+`)
	// describing matches the last words of names whose values describe a secret instead of containing it.
	describing = regexp.MustCompile(`(?i)(file|path|dir|folder|name|type|ttl|expiry|domain|issuer|audience|policy|header|length|size|count|limit|mode|provider|store|sock|endpoint)$`)
)

// LooksSecret reports whether a header, variable or parameter of this name has a secret value.
func LooksSecret(name string) bool {
	if secretName.MatchString(name) {
		return true
	}
	words := nameWord.FindAllString(name, -1)
	if len(words) == 0 {
		return false
	}
	last := strings.ToLower(strings.TrimRight(words[len(words)-1], "-_. "))
	switch last {
	case "pass", "creds", "cred", "dsn", "otp":
		return true
	case "auth", "pwd", "pat": // PWD by itself is a folder
		return len(words) > 1
	case "askpass", "bypass", "compass":
		return false
	}
	return strings.HasSuffix(last, "pass")
}

// holdsSecret is LooksSecret without names that only describe a secret, as TOKEN_FILE does.
func holdsSecret(name string) bool { return LooksSecret(name) && !describing.MatchString(name) }

// Secrets are values that must not be in anything that is kept of a run.
type Secrets []string

// Add adds a value, unless it is too short to be distinguished from other text.
func (s *Secrets) Add(value string) {
	if lookedFor(value) && !slices.Contains(*s, value) {
		*s = append(*s, value)
	}
}

// AddAll adds several.
func (s *Secrets) AddAll(values ...string) {
	for _, v := range values {
		s.Add(v)
	}
}

func lookedFor(value string) bool {
	short := len(value) < minSecret
	return !short && strings.TrimSpace(value) != "" || short && len(value) >= minWord && strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsSpace(r) })
}

// form is one way in which a secret, or a part of one, may stand in a text.
type form struct {
	text string
	word bool // only as a whole word
}

// forms are all ways in which the secrets and their parts may stand in a text, the longest first: one may be part of
// another.
func (s Secrets) forms() []form {
	var all []form
	seen := map[string]bool{}
	add := func(text string, word bool) {
		if !seen[text] {
			seen[text] = true
			all = append(all, form{text, word})
		}
	}
	for _, value := range s {
		for _, part := range append(partsOf(value, 3), value) {
			if !lookedFor(part) {
				continue
			}
			word := len(part) < minSecret
			add(part, word)
			for _, other := range []string{quotedInside(part), goQuotedInside(part), url.QueryEscape(part), url.PathEscape(part)} {
				add(other, word)
			}
			if name, password, ok := strings.Cut(part, ":"); ok && name != "" && password != "" && !strings.ContainsAny(part, " \n/") {
				add(base64.StdEncoding.EncodeToString([]byte(part)), false) // as HTTP sends a name and a password
			}
		}
	}
	slices.SortStableFunc(all, func(a, b form) int { return cmp.Compare(len(b.text), len(a.text)) })
	return all
}

// quotedInside is how JSON writes a text, without its quotes.
func quotedInside(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil || len(quoted) < 2 {
		return text
	}
	return string(quoted[1 : len(quoted)-1])
}

func goQuotedInside(text string) string {
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

var (
	schemed = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)\s+(\S+)$`)
	pair    = regexp.MustCompile(`^\s*[\w.$-]+=\s*"?([^"]+)"?\s*$`)
)

// partsOf are the parts of a value that are secrets by themselves: tok of "Bearer tok", the values of a cookie, name and
// password of a URL, the lines of a key, the secret members of a JSON object.
func partsOf(value string, depth int) []string {
	if depth == 0 {
		return nil
	}
	var parts []string
	add := func(part string) {
		part = strings.TrimSpace(part)
		if part == "" || part == value {
			return
		}
		parts = append(append(parts, part), partsOf(part, depth-1)...)
	}
	add(value)
	if m := schemed.FindStringSubmatch(value); m != nil {
		add(m[2])
		if decoded, err := base64.StdEncoding.DecodeString(m[2]); err == nil && strings.EqualFold(m[1], "basic") {
			add(string(decoded))
		}
	}
	pieces := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(";,& ", r) })
	for _, piece := range pieces {
		if m := pair.FindStringSubmatch(piece); m != nil {
			add(m[1])
			if plain, err := url.QueryUnescape(m[1]); err == nil {
				add(plain)
			}
		}
	}
	if name, password, ok := strings.Cut(value, ":"); ok && name != "" && !strings.ContainsAny(value, " \n/") {
		add(password)
	}
	for _, found := range CredentialsIn(value) {
		add(found)
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
				add(line)
			}
		}
	}
	var members map[string]any
	if strings.HasPrefix(strings.TrimSpace(value), "{") && json.Unmarshal([]byte(value), &members) == nil {
		for name, member := range members {
			if text, ok := member.(string); ok && holdsSecret(name) {
				add(text)
			}
		}
	}
	return parts
}

// Redact returns text without the secrets and their parts, in plain form and as encoded in JSON, Go and URLs.
func (s Secrets) Redact(text []byte) []byte { return redact(text, s.forms()) }

// RedactText is Redact for a string.
func (s Secrets) RedactText(text string) string {
	if len(s) == 0 {
		return text
	}
	return string(s.Redact([]byte(text)))
}

// TextRedactor is RedactText for many texts.
func (s Secrets) TextRedactor() func(text string) string {
	forms := s.forms()
	return func(text string) string { return string(redact([]byte(text), forms)) }
}

// In reports whether a text may contain one of the secrets.
func (s Secrets) In(text []byte) bool {
	return slices.ContainsFunc(s.forms(), func(f form) bool { return bytes.Contains(text, []byte(f.text)) })
}

func redact(text []byte, forms []form) []byte {
	for _, f := range forms {
		if !bytes.Contains(text, []byte(f.text)) {
			continue
		}
		if !f.word {
			text = bytes.ReplaceAll(text, []byte(f.text), []byte(Redacted))
			continue
		}
		var out []byte
		for from := 0; ; {
			i := bytes.Index(text[from:], []byte(f.text))
			if i < 0 {
				if out != nil {
					text = append(out, text[from:]...)
				}
				break
			}
			i += from
			end := i + len(f.text)
			if i > 0 && wordByte(text[i-1]) || end < len(text) && wordByte(text[end]) {
				out = append(out, text[from:i+1]...)
				from = i + 1
				continue
			}
			out = append(append(out, text[from:i]...), Redacted...)
			from = end
		}
	}
	return text
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// References are members of records whose values name things of the record itself, or of programs: a secret that
// happens to be such a word must not break what refers to it.
var references = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(`schema scenario leakrig started finished time read os arch go kernel provider kubernetes nodeImage
		name unit placement goVersion main modfile module package path version action pod node probe stack files hashes
		state func file check kind expect outcome result series variant variants id op sha256 with bad good given line run cluster`) {
		all[name] = true
	}
	return all
}()

// number matches texts that are only a number.
var number = regexp.MustCompile(`^[+-]?[0-9][0-9._]*([eE][+-]?[0-9]+)?$`)

// RedactJSON returns a JSON text without the secrets in its strings. Keys, numbers, and names that other members refer
// to stay, so that what reads the text is never misled by a secret that is a common word.
func (s Secrets) RedactJSON(text []byte) []byte { return redactJSON(text, s.forms()) }

// JSONRedactor is RedactJSON for many texts.
func (s Secrets) JSONRedactor() func(text []byte) []byte {
	forms := s.forms()
	return func(text []byte) []byte { return redactJSON(text, forms) }
}

func redactJSON(text []byte, forms []form) []byte {
	if !slices.ContainsFunc(forms, func(f form) bool { return bytes.Contains(text, []byte(f.text)) }) {
		return text
	}
	type nesting struct {
		object bool
		key    string // under which the whole thing stands
	}
	var open []nesting
	var out []byte
	key, isKey, kept := "", false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := stringEnd(text, i)
			if end < 0 {
				return redact(text, forms) // no JSON after all
			}
			value := text[i+1 : end]
			under := ""
			if len(open) > 0 {
				under = open[len(open)-1].key
			}
			switch {
			case isKey:
				key = string(value)
			case references[key], under == "hashes", under == "parameters" && number.Match(value):
			default:
				var plain string
				if json.Unmarshal(text[i:end+1], &plain) != nil {
					plain = string(value)
				}
				if clean := string(redact([]byte(plain), forms)); clean != plain {
					quoted, _ := json.Marshal(clean) // a string always can be
					out = append(append(out, text[kept:i]...), quoted...)
					kept = end + 1
				}
			}
			i = end
		case ':':
			isKey = false
		case ',':
			isKey = len(open) > 0 && open[len(open)-1].object
		case '{', '[':
			open = append(open, nesting{c == '{', key})
			isKey = c == '{'
		case '}', ']':
			if len(open) > 0 {
				key = open[len(open)-1].key // a list that goes on keeps its name
				open = open[:len(open)-1]
			}
		}
	}
	return append(out, text[kept:]...)
}

var (
	named = regexp.MustCompile(`(?i)([A-Z][\w.-]*)["']?\s*[=:]\s*((?:bearer|basic|token|digest|apikey|negotiate)\s+)?("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'&;,(){}<>\\]+)`)
	login = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://(?:([^\s/:@'"]*):([^\s/'"]+)|([^\s/:@'"]+))@`)
	// issued are tokens that their issuers have made to be recognised.
	issued = regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|sk-[\w-]{16,}|npm_\w{30,}|AIza[\w-]{30,})`)
)

// CredentialsIn finds what a text gives as a credential: name=value and name: value with a name that looks secret, as in
// the query of a URL, the password of a URL, and tokens of well-known forms.
func CredentialsIn(text string) []string {
	var found []string
	add := func(value string) {
		if value != "" && !strings.HasPrefix(value, "$") && !strings.Contains(value, "{{") {
			found = append(found, value)
		}
	}
	for rest := text; ; {
		at := named.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		name, value := rest[at[2]:at[3]], rest[at[6]:at[7]]
		if !holdsSecret(name) {
			rest = rest[at[3]+1:] // what looks like its value may begin with another name, as in http://h/?token=…
			continue
		}
		rest = rest[at[7]:]
		value = strings.Trim(value, `"'`)
		add(value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			add(plain)
		}
	}
	for _, m := range login.FindAllStringSubmatch(text, -1) {
		if m[3] != "" {
			if len(m[3]) >= 16 { // a name alone, unless it is a token
				add(m[3])
			}
			continue
		}
		add(m[1] + ":" + m[2])
		add(m[2])
		if plain, err := url.PathUnescape(m[2]); err == nil && plain != m[2] {
			add(plain)
		}
	}
	for _, token := range issued.FindAllString(text, -1) {
		add(token)
	}
	return found
}

// ShownURL is a URL without its password, and without the values of its query whose names look secret.
func ShownURL(u *url.URL) string {
	shown := *u
	query := strings.Split(shown.RawQuery, "&")
	for i, q := range query {
		if name, value, ok := strings.Cut(q, "="); ok && value != "" && LooksSecret(name) {
			query[i] = name + "=" + Redacted
		}
	}
	shown.RawQuery = strings.Join(query, "&")
	return shown.Redacted()
}

// header is a header as tools for HTTP take it.
var header = regexp.MustCompile(`^\s*([A-Za-z][\w-]*):\s*(.+)$`)

// CredentialsOf finds what a command line gives as credentials: headers, names with passwords, cookies, flags and
// assignments with names that look secret, also inside of a text for a shell.
func CredentialsOf(argv []string) []string { return credentialsOf(argv, 2) }

func credentialsOf(argv []string, depth int) []string {
	var found []string
	add := func(value string) {
		if value != "" && !strings.HasPrefix(value, "$") {
			found = append(found, value)
		}
	}
	for i, arg := range argv {
		found = append(found, CredentialsIn(arg)...)
		if depth > 1 && strings.ContainsAny(arg, " \n") {
			found = append(found, credentialsOf(shellWords(arg), depth-1)...)
		}
		if m := header.FindStringSubmatch(arg); m != nil && holdsSecret(m[1]) {
			add(m[2])
		}
		flag, value, glued := strings.Cut(arg, "=")
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		if !glued && i+1 < len(argv) {
			value = argv[i+1]
		}
		for _, short := range []string{"-u", "-U", "-b", "-H", "-a"} {
			if strings.HasPrefix(arg, short) && len(arg) > len(short) && !strings.HasPrefix(arg, "--") {
				flag, value = short, arg[len(short):]
			}
		}
		switch name := strings.TrimLeft(flag, "-"); {
		case flag == "-u" || flag == "-U" || flag == "-a" || name == "user" || name == "proxy-user":
			if _, password, ok := strings.Cut(value, ":"); ok && password != "" && !strings.HasPrefix(password, "//") {
				add(value)
			}
		case flag == "-b":
			if strings.Contains(value, "=") {
				add(value)
			}
		case flag == "-H" || name == "header" || name == "proxy-header":
			if m := header.FindStringSubmatch(value); m != nil && holdsSecret(m[1]) {
				add(m[2])
			}
		case holdsSecret(name) && !strings.HasPrefix(value, "-"):
			add(value)
		}
	}
	return found
}

// shellWords splits a text roughly as a shell does: it knows quotes and backslashes, and nothing else.
func shellWords(text string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	for rest := []rune(text); len(rest) > 0; rest = rest[1:] {
		c := rest[0]
		switch {
		case c == '\\' && quote != '\'' && len(rest) > 1:
			rest = rest[1:]
			word.WriteRune(rest[0])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && (unicode.IsSpace(c) || c == ';' || c == '|' || c == '&'):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// AddInherited adds what looks like a credential in an environment that programs inherit: by the name of a variable, or
// as the password or the token that is part of its value. A variable that names a file that is there is none.
func (s *Secrets) AddInherited(environ []string) {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if _, err := os.Stat(value); err == nil {
			continue
		}
		if holdsSecret(name) {
			s.Add(value)
		}
		for _, part := range CredentialsIn(value) {
			s.Add(part)
		}
	}
}
