/** The steps of a decision: rest, then armed or declining. */
import { useEffect, useRef, useState, type KeyboardEvent as ReactKeyboardEvent } from "react";

/** Minimum time between two actions of a person, in milliseconds. Typing, a program that pastes text as keys, and a double click are faster. */
const apart = 250;

export function useSteps() {
  const [step, set] = useState<"rest" | "arm" | "no">("rest");
  const since = useRef(0), letters = useRef<[before: number, last: number]>([-Infinity, -Infinity]);
  useEffect(() => {
    const note = (e: KeyboardEvent) => {
      if (/^\p{L}$/u.test(e.key) && !"jk".includes(e.key)) letters.current = [letters.current[1], e.timeStamp];
    };
    addEventListener("keydown", note, true);
    return () => removeEventListener("keydown", note, true);
  }, []);
  return {
    step,
    setStep: (to: typeof step) => {
      since.current = performance.now();
      set(to);
    },
    /** Reports whether the last letter is not part of a text. */
    alone: () => letters.current[1] - letters.current[0] > apart,
    /** Reports whether the current step was shown long enough to be read. */
    deliberate: () => performance.now() - since.current > apart,
    /** Ignores the repeated presses of a held Enter. Only the first press counts. */
    held: (e: ReactKeyboardEvent) => {
      if (e.repeat && e.key === "Enter") e.preventDefault();
    },
  };
}
