// Package imports keeps the arrows: which folder may import what. It has tests alone; the table of them is in rules_test.go.
//
// A package in no row fails, so a new folder starts with a decision on where it stands.
package imports
