"""A small service that greets people."""


def greet(name: str) -> str:
    # TODO: say good evening after six
    return f"Hello, {name}!"


def main() -> None:
    print(greet("world"))


if __name__ == "__main__":
    main()
