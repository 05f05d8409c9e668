package main

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// object is a JSON object. Its members are written in the order of their names.
type object = map[string]any

// served are the services that the daemon serves. HookService is implemented by users.
var served = []protoreflect.FullName{"toold.v1.CallService", "toold.v1.ToolService", "toold.v1.DocumentService", "toold.v1.WorkerService", "toold.v1.AdminService"}

// A builder collects the document.
type builder struct {
	paths   object
	schemas object
}

// document returns the OpenAPI document.
func document(files *protoregistry.Files) object {
	b := &builder{paths: object{}, schemas: object{"Error": errorSchema()}}
	var tags []object
	for _, name := range served {
		d, err := files.FindDescriptorByName(name)
		if err != nil {
			panic(err) // This cannot happen: the image has all protos.
		}
		s := d.(protoreflect.ServiceDescriptor)
		tags = append(tags, object{"name": string(s.Name()), "description": comment(s)})
		for i := range s.Methods().Len() {
			b.method(s.Methods().Get(i))
		}
	}
	b.routes()
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "toold", "version": "v1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "The API over HTTP with JSON. Fields that hold JSON text may be JSON values in requests; in responses they are values with `form=readable`.",
		},
		"servers":    []object{{"url": "/"}},
		"tags":       append(tags, object{"name": routesTag, "description": "Routes for browsers, scripts and other protocols."}),
		"paths":      b.paths,
		"security":   []object{{"token": []string{}}, {"session": []string{}}},
		"components": object{"schemas": b.schemas, "securitySchemes": securitySchemes(), "responses": object{"Error": jsonResponse("An error", ref("Error"))}},
	}
}

func securitySchemes() object {
	return object{
		"token":   object{"type": "http", "scheme": "bearer"},
		"session": object{"type": "apiKey", "in": "cookie", "name": "__Host-toold", "description": "The session of a browser, only from pages of the server itself."},
	}
}

// errorSchema is the form of errors, which Connect defines.
func errorSchema() object {
	return object{"type": "object", "required": []string{"code"}, "properties": object{
		"code":    object{"type": "string", "description": "The name of the gRPC code in lower case, such as invalid_argument."},
		"message": object{"type": "string"},
		"details": object{"type": "array", "items": object{"type": "object", "properties": object{
			"type":  object{"type": "string", "examples": []string{"google.rpc.ErrorInfo"}},
			"value": object{"type": "string", "description": "The message, as base64 without padding."},
			"debug": object{"description": "The message as JSON, such as the reason and the invalid fields."},
		}}},
	}}
}

// method adds the path of a method.
func (b *builder) method(m protoreflect.MethodDescriptor) {
	service := m.Parent().(protoreflect.ServiceDescriptor)
	text := comment(m)
	request, response := "application/json", jsonResponse("The response", b.message(m.Output()))
	if m.IsStreamingServer() || m.IsStreamingClient() {
		request = "application/connect+json"
		response = object{"description": "A stream of messages, each in an envelope of Connect", "content": object{request: object{"schema": b.message(m.Output())}}}
		text += "\n\nThe request and each message of the response are in envelopes of Connect: a byte of flags, then the length in four bytes, then the JSON."
	}
	if m.IsStreamingClient() {
		text += " The client sends a stream too, which needs HTTP/2."
	}
	b.paths["/"+string(service.FullName())+"/"+string(m.Name())] = object{"post": object{
		"operationId": string(service.Name()) + "_" + string(m.Name()),
		"tags":        []string{string(service.Name())},
		"summary":     firstSentence(text),
		"description": text,
		"parameters":  []object{formParameter},
		"requestBody": object{"required": true, "content": object{request: object{"schema": b.message(m.Input())}}},
		"responses":   object{"200": response, "default": errorResponse},
	}}
}

var (
	formParameter = object{"name": "form", "in": "query", "schema": object{"const": "readable"}, "description": "With readable, JSON text in the response is JSON values."}
	errorResponse = object{"$ref": "#/components/responses/Error"}
)

func jsonResponse(description string, schema object) object {
	return object{"description": description, "content": object{"application/json": object{"schema": schema}}}
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// comment returns the comment of a declaration in its proto file.
func comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, " ")
	}
	return strings.Join(lines, "\n")
}

// firstSentence returns a text up to its first full stop, on one line.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end]
	}
	return strings.TrimSuffix(text, ".")
}
