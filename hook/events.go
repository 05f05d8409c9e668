package hook

import (
	"errors"
	"fmt"

	"github.com/toold-dev/toold/call"
)

// MaxEvents and MaxEventBytes limit the events of one [AfterResult]: their number, and the bytes of their texts together.
const (
	MaxEvents     = 16
	MaxEventBytes = 256 << 10
)

// CheckEvents returns an error if an After hook may not publish these events.
func CheckEvents(events []call.Event) error {
	if len(events) > MaxEvents {
		return fmt.Errorf("%d events; at most %d are accepted", len(events), MaxEvents)
	}
	size := 0
	for i := range events {
		if err := checkEvent(&events[i]); err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		size += events[i].Weight()
	}
	if size > MaxEventBytes {
		return fmt.Errorf("events of %d bytes; at most %d are accepted", size, MaxEventBytes)
	}
	return nil
}

func checkEvent(e *call.Event) error {
	switch a := e.Activity; {
	case e.Type == call.EventProgress && e.Progress != nil:
		return e.Progress.Check()
	case e.Type != call.EventActivitySnapshot && e.Type != call.EventActivityDelta || a == nil:
		return errors.New("want a progress, activity_snapshot or activity_delta with its content")
	case a.ID == "":
		return errors.New("the activity has no id")
	case e.Type == call.EventActivitySnapshot:
		return checkJSON("content", a.Content)
	default:
		return checkJSON("patch", a.Patch)
	}
}

func checkJSON(name, text string) error {
	if _, err := call.ParseJSON(text, 0); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
