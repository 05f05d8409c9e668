package tool

import (
	"fmt"
	"net/url"
	"strings"
)

// ArtifactScheme begins the handle of an artifact.
const ArtifactScheme = "artifact://"

// ArtifactHandle names an artifact, or an output stream, of any call: what a model reads in place of what was cut, and
// what tools such as read take.
func ArtifactHandle(callID, name string) string {
	return ArtifactScheme + url.PathEscape(callID) + "/" + url.PathEscape(name)
}

// ParseArtifactHandle returns what [ArtifactHandle] was given.
func ParseArtifactHandle(handle string) (callID, name string, err error) {
	rest, ok := strings.CutPrefix(handle, ArtifactScheme)
	id, name, both := strings.Cut(rest, "/")
	if !ok || !both || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("artifact handle %q: want artifact://CALL/NAME", handle)
	}
	if id, err = url.PathUnescape(id); err == nil {
		name, err = url.PathUnescape(name)
	}
	if err != nil || id == "" || name == "" {
		return "", "", fmt.Errorf("artifact handle %q: want artifact://CALL/NAME", handle)
	}
	return id, name, nil
}
