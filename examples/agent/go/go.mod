module github.com/toold-dev/toold/examples/agent/go

go 1.26.0

require github.com/toold-dev/toold v0.0.0

require (
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

// A program outside this repository removes this line and runs "go get github.com/toold-dev/toold@latest".
replace github.com/toold-dev/toold => ../../..
