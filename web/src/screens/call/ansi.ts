/** Reads the colours in a program's output. Other escape sequences have no effect: their characters stay in the text. */

/** A part of a line with the same look. `style` is a list of class names, such as `a1 ab`. */
export interface Piece {
  text: string;
  style: string;
}

/** The current look: a colour from 1 to 6 or 0 for none, bold, dim. */
interface Look {
  colour: number;
  bold: boolean;
  dim: boolean;
}

/** Select Graphic Rendition with at most 64 characters of parameters. */
const sgr = /\x1b\[([0-9;:]{0,64})m/g;

/** Reads lines in order. Each line begins with the look at the end of the previous line. */
export class Ansi {
  private look: Look = { colour: 0, bold: false, dim: false };

  copy(): Ansi {
    const a = new Ansi();
    a.look = { ...this.look };
    return a;
  }

  /** Splits a line into pieces. The line has no line feed. */
  read(line: string): Piece[] {
    const pieces: Piece[] = [];
    let from = 0;
    const add = (to: number) => {
      if (to > from) pieces.push({ text: line.slice(from, to), style: classes(this.look) });
    };
    for (const m of line.matchAll(sgr)) {
      add(m.index);
      this.apply(m[1]!);
      from = m.index + m[0].length;
    }
    add(line.length);
    return pieces;
  }

  private apply(parameters: string) {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let i = 0; i < codes.length; i++) {
      const c = codes[i]!;
      if (c === 0) this.look = { colour: 0, bold: false, dim: false };
      else if (c === 1) this.look.bold = true;
      else if (c === 2) this.look.dim = true;
      else if (c === 22) this.look.bold = this.look.dim = false;
      else if (c === 39) this.look.colour = 0;
      else if ((c >= 30 && c <= 37) || (c >= 90 && c <= 97)) this.paint(c % 10, c >= 90);
      else if (c === 38 || c === 48) {
        // 38;5;N is one of 256 colours, 38;2;R;G;B one of 2^24 colours. 48 sets the background, which is not shown.
        const n = codes[i + 2] ?? 0;
        if (c === 38 && codes[i + 1] === 5 && n < 16) this.paint(n % 8, n >= 8);
        i += codes[i + 1] === 5 ? 2 : codes[i + 1] === 2 ? 4 : 0;
      }
    }
  }

  /** Black and white become the colour of the text. Bright black becomes dim. */
  private paint(n: number, bright: boolean) {
    this.look.colour = n >= 1 && n <= 6 ? n : 0;
    if (n === 0 && bright) this.look.dim = true;
  }
}

function classes(l: Look): string {
  return [l.colour ? `a${l.colour}` : "", l.bold ? "ab" : "", l.dim ? "ad" : ""].filter(Boolean).join(" ");
}
