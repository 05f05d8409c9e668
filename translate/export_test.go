package translate

// PlainFrame is the reference for FromFrame.
var PlainFrame = plainFrame
