package jsonform

// ReadUsual is for the fuzz test that compares it with protojson.
var ReadUsual = readUsual
