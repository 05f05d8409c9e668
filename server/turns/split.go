package turns

import (
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
)

// partSize is the largest part of a message in bytes. A frame with it has less than 1 MiB.
const partSize = 1<<20 - 4096

// split returns the frames of messages. A part ends at the end of a character.
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
