package server

// What the tests of the encoder compare.
var (
	FromFrame  = fromFrame
	PlainFrame = plainFrame

	FromCall  = fromCall
	WholeCall = wholeCall
)
