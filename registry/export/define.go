package export

import "github.com/toold-dev/toold/tool"

func defineOpenAI(name string, _ *tool.Descriptor, description string, parameters any, strict bool) *object {
	function := obj("name", name, "description", description, "parameters", parameters)
	if strict {
		function.set("strict", true)
	}
	return obj("type", "function", "function", function)
}

// defineResponses always sets the member strict, because the Responses API treats a tool without this member as strict.
func defineResponses(name string, _ *tool.Descriptor, description string, parameters any, strict bool) *object {
	return obj("type", "function", "name", name, "description", description, "parameters", parameters, "strict", strict)
}

func defineAnthropic(name string, _ *tool.Descriptor, description string, parameters any, _ bool) *object {
	return obj("name", name, "description", description, "input_schema", parameters)
}

func defineGemini(name string, _ *tool.Descriptor, description string, parameters any, _ bool) *object {
	return obj("name", name, "description", description, "parameters", parameters)
}

func defineMCP(name string, d *tool.Descriptor, description string, parameters any, _ bool) *object {
	o := obj("name", name)
	if d.DisplayName != "" {
		o.set("title", d.DisplayName)
	}
	o.set("description", description)
	o.set("inputSchema", parameters)
	if v, err := parse(d.ResultSchema); err == nil && rootOf(v).get("type") == "object" {
		o.set("outputSchema", v)
	}
	e := d.Effects.Normal()
	readOnly := e.Mutability == tool.ReadOnly
	hints := obj("readOnlyHint", readOnly)
	if !readOnly {
		hints.set("destructiveHint", e.Safety == tool.SafetyDestructive)
		hints.set("idempotentHint", d.Idempotent)
	}
	hints.set("openWorldHint", e.OpenWorld)
	o.set("annotations", hints)
	return o
}
