package turn

// gemini is the format of Gemini's generateContent. Gemini matches calls without ids by their position. The answers to all calls are
// therefore in one message, in the order of the calls.
type gemini struct{}

func (gemini) parse(p *parser, m node) error {
	if !m.get("candidates").absent() {
		return m.refuse("is a response; ask for one candidate, collect the stream, and send candidates[0].content")
	}
	if err := m.assistant("model"); err != nil {
		return err
	}
	parts := m.get("parts")
	if parts.absent() {
		return nil
	}
	if err := parts.must('['); err != nil {
		return err
	}
	for part := range parts.items() {
		if err := (gemini{}).part(p, part); err != nil {
			return err
		}
	}
	return nil
}

func (gemini) part(p *parser, part node) error {
	if err := part.must('{'); err != nil {
		return err
	}
	c := part.get("functionCall")
	switch {
	case !part.get("functionResponse").absent(), !part.get("function_response").absent():
		return part.forged()
	case !part.get("function_call").absent():
		return part.refuse("has function_call; send the JSON of the API, which has functionCall")
	case c.absent():
		if part.get("thought").raw() != "true" {
			p.addText(part.get("text"))
		}
		return nil
	}
	if err := c.must('{'); err != nil {
		return err
	}
	if !c.get("partialArgs").absent() || c.get("willContinue").raw() == "true" {
		return c.refuse("is a part of a call; collect the stream and send the complete content")
	}
	name, err := c.get("name").mustString()
	if err != nil {
		return err
	}
	args, id := c.get("args"), c.get("id")
	if !args.absent() && args.kind() != '{' {
		return args.refuse("must be an object")
	}
	if !id.absent() && id.kind() != '"' {
		return id.refuse("must be a string")
	}
	return p.add(&found{at: c, kind: "functionCall", id: id.str(), name: name, arguments: args.raw(), object: true})
}

type content struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []part            `json:"parts,omitempty"`
}

func (gemini) messages(outcomes []outcome) [][]byte {
	if len(outcomes) == 0 {
		return nil
	}
	m := content{Role: "user"}
	for i := range outcomes {
		o := &outcomes[i]
		key := "output"
		if o.failed {
			key = "error"
		}
		m.Parts = append(m.Parts, part{FunctionResponse: &functionResponse{
			ID: o.call.ModelCallID, Name: o.call.Name, Response: map[string]string{key: o.text}, Parts: mediaParts(o.media),
		}})
	}
	return [][]byte{encode(m)}
}

func mediaParts(media []medium) []part {
	var parts []part
	for _, m := range media {
		parts = append(parts, part{InlineData: &inlineData{MIMEType: m.mime, Data: m.base64()}})
	}
	return parts
}

func (gemini) late(text string, media []medium) []byte {
	return encode(content{Role: "user", Parts: append([]part{{Text: text}}, mediaParts(media)...)})
}

// takes excludes GIF, which Gemini does not read.
func (gemini) takes(mime string) bool { return isImage(mime) && mime != "image/gif" || mime == pdf }
