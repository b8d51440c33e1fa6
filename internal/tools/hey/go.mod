module github.com/leakrig/leakrig/internal/tools/hey

go 1.26.0

tool github.com/rakyll/hey

require (
	github.com/rakyll/hey v0.1.4 // indirect
	golang.org/x/net v0.0.0-20181017193950-04a2e542c03f // indirect
	golang.org/x/text v0.3.0 // indirect
)
