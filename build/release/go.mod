module github.com/toold-dev/toold/build/release

go 1.26.0

require golang.org/x/mod v0.42.0

require github.com/google/licensecheck v0.3.1
