// Package jsonform is the JSON form of the API's messages: protobuf's JSON mapping, with one addition. Fields that hold JSON text, such as
// the arguments of a call, may also be JSON values.
//
// A request may always send such a field as an object, an array, a number or a boolean. toold then uses the bytes of the value, unchanged,
// as the text of the field. A string contains the text of the field, and null means that the field is absent, as in protobuf's mapping.
//
// A response contains such values only in the readable form, which a client must request. Two kinds of text stay a string even then: text
// that is not valid JSON by toold's strict rules, and text that is itself a JSON string or null. A client can therefore always send back
// what it received.
package jsonform
