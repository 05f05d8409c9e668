package command

// ParseForTest returns a set with the tool of a manifest text, without reading a manifest file.
func ParseForTest(cfg Config, name string, text []byte) (*Set, error) {
	t, err := newTool(&cfg, name, text)
	if err != nil {
		return nil, err
	}
	return &Set{tools: []*scripted{t}}, nil
}

// ParseLineForTest parses one line of output.
func ParseLineForTest(text []byte) (last bool, err error) {
	l, err := parseLine(text)
	return err == nil && l.last(), err
}
