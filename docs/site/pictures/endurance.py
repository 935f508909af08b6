"""Memory and descriptors of the service during a long run, from the measurements of `make endurance`."""
import json
from pathlib import Path

from svg import Picture

REPORT = Path(__file__).with_name("endurance.json")
LEFT, RIGHT = 76, 736


def draw():
    report = json.loads(REPORT.read_text())
    times, memory, descriptors = zip(*report["samples"])
    minutes = round(times[-1] / 60)
    picture = Picture(
        "endurance", 440, f"The service under load for {minutes} minutes",
        f"Memory stays below {max(memory):.0f} MiB and descriptors below {max(descriptors) + 1} while {report['clients']:,} clients send requests for {minutes} minutes.",
    )
    picture.text(24, 40, f"{report['clients']:,} clients, {minutes} minutes, --memory {report['memory']}", 17, bold=True)
    panel(picture, 70, 150, "resident memory, MiB", "blue", times, memory)
    panel(picture, 260, 130, "open descriptors", "green", times, descriptors)
    for minute in range(0, minutes + 1, 5):
        picture.text(across(60 * minute, times), 414, str(minute), 14, "quiet", "middle")
    picture.text(RIGHT, 434, "minutes", 14, "quiet", "end")
    picture.write()


def across(time, times):
    return round(LEFT + (RIGHT - LEFT) * min(time, times[-1]) / times[-1], 1)


def panel(picture, top, height, title, colour, times, values):
    """Draws a curve above a scale that starts at zero."""
    step = next(step for step in (10, 20, 50, 100, 200, 500, 1000, 2000) if max(values) / step <= 4)
    most = step * (int(max(values) // step) + 1)
    picture.box(LEFT, top, RIGHT - LEFT, height, "plain", "line", 4, 1)
    for value in range(0, most + 1, step):
        y = round(top + height - height * value / most, 1)
        picture.text(LEFT - 8, y + 5, f"{value:,}", 14, "quiet", "end")
        picture.path(f"M{LEFT} {y}H{RIGHT}", "line", 0.5, arrow=False)
    points = " ".join(f"{across(time, times)} {top + height - height * value / most:.1f}" for time, value in zip(times, values))
    picture.path(f"M{points}", colour, 2.5, arrow=False)
    picture.text(LEFT + 10, top + 22, title, 15, colour, bold=True)
