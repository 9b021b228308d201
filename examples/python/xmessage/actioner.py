"""An actioner: adds, plays, pauses and kills tasks, and prints tables.

    python actioner.py 127.0.0.1:5677 add task:x --type sync --priority 5
    python actioner.py 127.0.0.1:5677 play ID      (or play -a for all)
    python actioner.py 127.0.0.1:5677 list Created Run
"""

import argparse
import uuid

from dialect import Connection


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("broker")
    parser.add_argument("--key")
    verbs = parser.add_subparsers(dest="verb", required=True)
    add = verbs.add_parser("add")
    add.add_argument("record")
    add.add_argument("--type", dest="task_type")
    add.add_argument("--priority", type=int)
    add.add_argument("--tag", dest="tags", action="append")
    add.add_argument("--on-lost")
    play = verbs.add_parser("play")
    play.add_argument("id", nargs="?", type=uuid.UUID)
    play.add_argument("-a", "--all", action="store_true")
    for verb in ("pause", "kill"):
        verbs.add_parser(verb).add_argument("id", type=uuid.UUID)
    verbs.add_parser("list").add_argument("states", nargs="*")
    verbs.add_parser("workers")
    args = parser.parse_args()

    broker = Connection(args.broker, "actioner", key=args.key)
    if args.verb == "add":
        names = ("task_type", "priority", "tags", "on_lost")
        options = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
        if options:
            broker.send("ActionerOp", {"AddTaskWith": {"record_id": args.record, **options}})
        else:
            broker.send("ActionerOp", {"AddTask": args.record})
    elif args.verb == "play" and args.all:
        broker.send("ActionerOp", "PlayAllTask")
    elif args.verb in ("play", "pause", "kill"):
        broker.send("ActionerOp", {f"{args.verb.capitalize()}Task": args.id.bytes})
    elif args.verb == "list":
        # One field that is a list: a list in a list.
        broker.send("TaskTablePrint", [[state(text) for text in args.states]])
    else:
        broker.send("WorkerTablePrint")
    broker.send("Over")
    while True:
        name, value = broker.receive()
        if name == "Over":
            break
        if name == "BulkMessage":
            print(value, flush=True)


def state(text):
    """`Run`, or `Terminated=0` with its exit code."""
    name, equals, code = text.partition("=")
    return {name: int(code)} if equals else name


if __name__ == "__main__":
    main()
