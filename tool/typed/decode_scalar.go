package typed

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

func mismatch(want string, value any) *DecodeError {
	return &DecodeError{Reason: "want " + want + ", got " + describe(value)}
}

func describe(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("the Go type %T", value)
}

func storeString(value any, into reflect.Value) *DecodeError {
	s, ok := value.(string)
	if !ok {
		return mismatch("a string", value)
	}
	into.SetString(s)
	return nil
}

func storeBool(value any, into reflect.Value) *DecodeError {
	b, ok := value.(bool)
	if !ok {
		return mismatch("a boolean", value)
	}
	into.SetBool(b)
	return nil
}

func storeNumber(value any, into reflect.Value) *DecodeError {
	n, ok := value.(json.Number)
	if !ok {
		return mismatch("a number", value)
	}
	into.SetString(string(n))
	return nil
}

func storeInt(value any, into reflect.Value) *DecodeError {
	token, err := integer(value)
	if err != nil {
		return err
	}
	n, failed := strconv.ParseInt(token, 10, into.Type().Bits())
	if failed != nil {
		return unfit(value, into, failed)
	}
	into.SetInt(n)
	return nil
}

func storeUint(value any, into reflect.Value) *DecodeError {
	token, err := integer(value)
	if err != nil {
		return err
	}
	if strings.HasPrefix(token, "-") {
		return unfit(value, into, strconv.ErrRange)
	}
	n, failed := strconv.ParseUint(token, 10, into.Type().Bits())
	if failed != nil {
		return unfit(value, into, failed)
	}
	into.SetUint(n)
	return nil
}

func storeFloat(value any, into reflect.Value) *DecodeError {
	n, ok := value.(json.Number)
	if !ok {
		return mismatch("a number", value)
	}
	f, err := strconv.ParseFloat(string(n), into.Type().Bits())
	if err != nil {
		return unfit(value, into, err)
	}
	into.SetFloat(f)
	return nil
}

func unfit(value any, into reflect.Value, err error) *DecodeError {
	if errors.Is(err, strconv.ErrRange) {
		return &DecodeError{Reason: fmt.Sprintf("the number %v does not fit in %v", value, into.Kind())}
	}
	return &DecodeError{Reason: fmt.Sprintf("%q is not a number", value)}
}

// integer returns the digits of a number with an integral value, for any spelling of the number, such as 100, 100.0 or 1e2.
func integer(value any) (string, *DecodeError) {
	n, ok := value.(json.Number)
	if !ok {
		return "", mismatch("an integer", value)
	}
	token := string(n)
	if token != "-0" && !strings.ContainsAny(token, ".eE") {
		return token, nil
	}
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(token), "e")
	e := 0
	if scaled {
		var err error
		if e, err = strconv.Atoi(exponent); err != nil {
			return "", &DecodeError{Reason: fmt.Sprintf("want an integer, got %s", token)}
		}
	}
	unsigned := strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	if digits == "" {
		return "0", nil
	}
	zeros := len(whole) + e - len(digits) // zeros after the last digit that is not 0
	if zeros < 0 {
		return "", &DecodeError{Reason: fmt.Sprintf("want an integer, got %s", token)}
	}
	sign := mantissa[:len(mantissa)-len(unsigned)]
	return sign + digits + strings.Repeat("0", min(zeros, 64)), nil // At most 64 zeros are written, which already exceeds the range of any integer type.
}

func storeBase64(s string, into reflect.Value) *DecodeError {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return &DecodeError{Reason: "want base64: " + err.Error(), Err: err}
	}
	into.SetBytes(b)
	return nil
}

func storeAny(value any, into reflect.Value) *DecodeError {
	if value == nil {
		into.SetZero()
		return nil
	}
	into.Set(reflect.ValueOf(clone(value)))
	return nil
}

// clone copies arrays and objects. Without a copy, a tool that changes its arguments would change the value from which toold computes
// digests.
func clone(value any) any {
	switch value := value.(type) {
	case []any:
		array := make([]any, len(value))
		for i, element := range value {
			array[i] = clone(element)
		}
		return array
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, member := range value {
			object[name] = clone(member)
		}
		return object
	}
	return value
}

// storerByMethod returns the function that stores a value with the unmarshal method of the type. It returns nil when the type has no such
// method.
func storerByMethod(t reflect.Type) func(any, reflect.Value) *DecodeError {
	switch pointer := reflect.PointerTo(t); {
	case t == reflect.TypeFor[json.Number]():
		return storeNumber
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return storeByUnmarshalJSON
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return storeByUnmarshalText
	}
	return nil
}

func storeByUnmarshalJSON(value any, into reflect.Value) *DecodeError {
	text, err := encode(value)
	if err == nil {
		err = into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text)
	}
	if err != nil {
		return &DecodeError{Reason: err.Error(), Err: err}
	}
	return nil
}

func storeByUnmarshalText(value any, into reflect.Value) *DecodeError {
	s, ok := value.(string)
	if !ok {
		return mismatch("a string", value)
	}
	if err := into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		return &DecodeError{Reason: err.Error(), Err: err}
	}
	return nil
}

// encode returns the canonical form v1 of a parsed value. The output of encoding/json differs from this form only in the escapes of U+2028
// and U+2029, which encode removes.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	if !bytes.Contains(text, []byte(`\u202`)) {
		return text, nil
	}
	raw := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case bytes.HasPrefix(rest, []byte(`\u2028`)):
			raw, i = append(raw, "\u2028"...), i+5
		case bytes.HasPrefix(rest, []byte(`\u2029`)):
			raw, i = append(raw, "\u2029"...), i+5
		case rest[0] == '\\':
			raw, i = append(raw, rest[:2]...), i+1
		default:
			raw = append(raw, rest[0])
		}
	}
	return raw, nil
}
