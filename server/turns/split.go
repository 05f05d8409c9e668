package turns

import (
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
)

// partSize is the largest part of a message in bytes. A frame with such a part is smaller than 1 MiB.
const partSize = 1<<20 - 4096

// split returns the frames that contain the messages. It never splits a message inside a character.
func split(messages [][]byte) (frames []call.Frame) {
	for i, m := range messages {
		for {
			end := len(m)
			if end > partSize {
				for end = partSize; !utf8.RuneStart(m[end]); end-- {
				}
			}
			frames = append(frames, call.Frame{TurnMessage: &call.TurnMessage{Index: i, Part: string(m[:end]), Last: end == len(m)}})
			if m = m[end:]; len(m) == 0 {
				break
			}
		}
	}
	return frames
}
