/** A result that a person gives in the tool's place. */
import { useKeys } from "../../keys.ts";
import { shapeOf } from "./schema.ts";
import { Form, RawJson } from "./Form.tsx";
import type { Json } from "./json.ts";

export interface InsteadAnswer {
  data?: Json;
  /** True while the entered data is not JSON. `data` is then undefined. */
  wrong?: boolean;
  message: string;
  error: boolean;
}

interface Props {
  answer: InsteadAnswer;
  set: (a: InsteadAnswer) => void;
  /** The schema of the tool's results; undefined if it has none. */
  schema: Json | undefined;
  errors: ReadonlyMap<string, string>;
  close: () => void;
}

export function Instead({ answer, set, schema, errors, close }: Props) {
  const form = schema !== undefined && shapeOf(schema).kind === "object";
  useKeys({ escape: close });
  const choice = (error: boolean, title: string, about: string) => (
    <label className="opt">
      <input type="radio" name="instead" checked={answer.error === error} onChange={() => set({ ...answer, error, wrong: false })} />
      <span className="b">{title}</span>
      <span />
      <span className="d">{about}</span>
    </label>
  );
  return (
    <section className="sec edit" aria-label="A result in the tool's place">
      <header>
        <h2>A result in the tool's place</h2>
        <button className="btn bare sm right" onClick={close}>Discard <kbd>r</kbd></button>
      </header>
      <p className="t2">The tool does not run. The model reads what you enter, and the record says that you gave it.</p>
      <fieldset className="opts">
        <legend className="sr">How the call ends</legend>
        {choice(false, "As if it had succeeded", schema === undefined ? "With data, a message, or both." : "The data must be what the tool could return.")}
        {choice(true, "As if it had failed", "With a message that says why.")}
      </fieldset>
      <div className="cols2">
        {!answer.error && (
          <div className="field"><span className="lab">data <span className="t3">{form ? "by the result schema" : schema === undefined ? "JSON, may be left out" : "JSON"}</span></span>{form ? <Form schema={schema} value={answer.data} set={(data) => set({ ...answer, data })} errors={errors} /> : <RawJson label="data" value={answer.data} set={(data, wrong) => set({ ...answer, data, wrong })} />}</div>
        )}
        <div className="field"><label htmlFor="instead-message">message <span className="t3">{answer.error ? "required; the model reads it" : "the model reads it instead of the data"}</span></label><textarea id="instead-message" className="inp" rows={2} maxLength={4000} value={answer.message} onChange={(e) => set({ ...answer, message: e.target.value })} /></div>
      </div>
    </section>
  );
}
