package translate

// PlainFrame returns the frame with which tests compare the result of FromFrame.
var PlainFrame = plainFrame
