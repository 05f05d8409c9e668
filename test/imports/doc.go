// Package imports checks which folder may import which packages. It contains only tests; the table is in rules_test.go.
//
// A package without a row fails, so that the author of a new folder decides its place in the architecture.
package imports
