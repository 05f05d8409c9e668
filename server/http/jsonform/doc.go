// Package jsonform is the JSON form of the API's messages: protobuf's JSON mapping, with one addition. Fields that hold JSON text, such as the
// arguments of a call, may also be JSON values.
//
// A request may always send such a field as an object, an array, a number or a boolean. toold takes the bytes of the value unchanged as the
// text. A string is the text itself, and null means that the field is absent, as in protobuf's mapping.
//
// A response has values only in the readable form, which a client asks for. Text that is not valid JSON by toold's strict rules remains a
// string, and so does the text of a JSON string or of null. So a client can always send back what it received.
package jsonform
