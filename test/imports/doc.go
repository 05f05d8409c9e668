// Package imports checks which folder may import which packages. It contains only tests; the table is in rules_test.go.
//
// The test fails for a package without a row, so that the author of a new folder must decide its place in the architecture.
package imports
