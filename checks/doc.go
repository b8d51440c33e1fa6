// Package checks decides: it turns a record into a verdict. It holds the checks a scenario may name
// (Kinds), the statistics behind them, and Judge, which combines their findings and holds the result
// against what the scenario expects.
//
// Everything here is a pure function of the scenario and the record. Nothing is measured, rendered or
// written, and nothing that is missing ever passes: without a sample, without load, without enough
// rounds the outcome is inconclusive, with the reason and the numbers.
package checks
