module github.com/leakrig/leakrig/subjects/museum/pgx-statements

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.3.1
	github.com/leakrig/leakrig/subjects/serve v0.0.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20221227161230-091c0ba34f0a // indirect
	golang.org/x/crypto v0.6.0 // indirect
	golang.org/x/text v0.7.0 // indirect
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
