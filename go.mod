module github.com/toold-dev/toold

go 1.26

