package scenarios

import (
	"slices"
	"testing"
)

func TestRedact(t *testing.T) {
	for name, row := range map[string]struct {
		text, want string
		secrets    []string
	}{
		"nothing to hide": {text: "spec: {env: {A:   b}}\n", want: "spec: {env: {A:   b}}\n"},
		"a header, and where it is repeated": {
			text: "a: sends Bearer 123456\nheaders: {Authorization: Bearer 123456, Accept: text}\n",
			want: "a: sends REDACTED\nheaders: {Authorization: REDACTED, Accept: text}\n", secrets: []string{"Bearer 123456"},
		},
		"behind an alias": {
			text: "x: &x opensesame\nenv:\n  TOKEN: *x\n",
			want: "x: &x REDACTED\nenv:\n  TOKEN: *x\n", secrets: []string{"opensesame"},
		},
		"too short to be looked for elsewhere": {
			text: "a: 12\nenv: {PASSWORD: 12}\n",
			want: "a: 12\nenv: {PASSWORD: REDACTED}\n",
		},
		"a parameter's place, and part of one": {
			text: "parameters: {api-token: opensesame}\nenv: {TOKEN: $(api-token), SECRET: $(user)opensesame}\n",
			want: "parameters: {api-token: REDACTED}\nenv: {TOKEN: $(api-token), SECRET: REDACTED}\n", secrets: []string{"opensesame", "$(user)opensesame"},
		},
	} {
		kept, err := Keep(Source{Data: []byte(row.text)}, nil)
		if err != nil || string(kept.Text) != row.want || !slices.Equal(kept.Secrets, row.secrets) {
			t.Errorf("%s: %q %v %v", name, kept.Text, kept.Secrets, err)
		}
	}
}
