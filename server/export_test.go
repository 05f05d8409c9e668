package server

import (
	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// What the tests of the encoder compare.
var (
	FromFrame  = func(f *call.Frame) *tooldv1.Frame { return fromFrame(f).Frame }
	PlainFrame = plainFrame

	FromCall  = fromCall
	WholeCall = wholeCall
)
