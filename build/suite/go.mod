// The official JSON-Schema-Test-Suite, as a module carries it whole; the tests of registry read it.
module github.com/toold-dev/toold/build/suite

go 1.26

require github.com/kaptinlin/jsonschema v0.4.6
