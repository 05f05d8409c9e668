package translate

// PlainFrame is the frame that FromFrame is compared with.
var PlainFrame = plainFrame
