"""Shows what a broker knows about its Majordomo services and workers.

    python mdp_monitor.py            once
    python mdp_monitor.py --every 2  every two seconds
"""

import argparse
import time

from mdp_client import Client


def show(client):
    for title, service in [
        ("services", "mmi.list"),
        ("who serves what", "mmi.list_services"),
        ("waiting and running", "mmi.workers"),
        ("health", "mmi.health"),
    ]:
        print(f"{title}:")
        for frame in client.request(service) or []:
            print("  " + frame.decode())
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", default="tcp://127.0.0.1:5555")
    parser.add_argument("--every", type=float, help="seconds; without it, once")
    arguments = parser.parse_args()
    client = Client(arguments.broker)
    show(client)
    while arguments.every:
        time.sleep(arguments.every)
        show(client)


if __name__ == "__main__":
    main()
