#!/usr/bin/python3 -IS
"""Runs the commands by which `reconfigure` drives Slurm, and no others.

    slurm_commands.py LINE

This is the forced command of the control host's key for Slurm (sshd(8), AUTHORIZED_KEYS FILE FORMAT). It runs as SlurmUser, and LINE is SSH_ORIGINAL_COMMAND: words quoted as for a
POSIX shell. Programs are started without a shell, with exactly the words that a pattern below admits.
"""

import os
import pwd
import re
import shlex
import sys
import syslog
import time

# A hostlist, as `reconfigure` writes it, without the word ALL, which names all nodes.
NODES = r"NodeName=(?!(.*,)?[Aa][Ll][Ll](,|$))[A-Za-z0-9_.,\[\]-]{1,32768}"
# Our mark of a text, and one line without quotes. A reason has at most 255 bytes, a comment 1024.
TEXT = r"reconfigure: [^\x00-\x1f\x7f\"'`]{0,1024}"
COMMANDS = [
    ["scontrol", "ping"],
    ["scontrol", "show", "config"],
    ["scontrol", "update", NODES, "State=(DOWN|DRAIN|POWER_DOWN_ASAP)", "Reason=" + TEXT],
    ["scontrol", "update", NODES, "State=(POWER_DOWN_FORCE|POWER_DOWN|POWER_UP|UNDRAIN)"],
    ["scontrol", "update", r"SuspendExcNodes=[A-Za-z0-9_.,:\[\]-]{0,32768}"],
    ["scontrol", "update", NODES, "Reason= ?"],
    ["scontrol", "update", r"JobId=[0-9]{1,20}(,[0-9]{1,20}){0,4000}", "AdminComment=" + TEXT],
    ["squeue", "--noheader", "--all", r"--Format=jobid:[0-9]{1,3},admin_comment:[0-9]{1,3}"],
]
# Commands that list nodes as JSON: which one works depends on the release. The first group is the command's name in the answer; a hostlist may follow.
LISTERS = [r"(scontrol show nodes --json)( [A-Za-z0-9][A-Za-z0-9_.,\[\]-]{0,32767})?", r"(sinfo --json)"]
SUSPENDED = "squeue --noheader --all --states=SUSPENDED --format=%N"
LONGEST = 65536  # bytes of a line
# The test of a campaign's first node: a reservation for this user, and one job in it. The script belongs to root, so
# that the key decides neither the command nor its user.
CANARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "canary.sh")
NAME = r"reconfigure_[0-9]{1,18}_[0-9]{1,9}"
NODE = r"(?![Aa][Ll][Ll]$)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
CANARIES = [
    ["canary", "reserve", NAME, NODE],
    ["canary", "test", NAME, NODE, r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "[1-9][0-9]{0,3}"],
    ["canary", "release", NAME],
]
# Nodes that have come up: up.sh lets the jobs start that wait for them.
UP = ["up", r"(?!(.*,)?[Aa][Ll][Ll](,|$))[A-Za-z0-9][A-Za-z0-9_.,\[\]-]{0,32767}"]
# Jobs: their numbers, users, partitions, states, times and nodes, and no other text.
JOBS = ["jobs", "[0-9]{1,18}"]
QUEUE = ["squeue", "--noheader", "--all", "--states=all", "--format=%A|%u|%P|%T|%V|%S|%e|%N"]
ENDED = r"JobId=([0-9]+) UserId=([^ ()]+)\([0-9]+\) GroupId=[^ ()]+\([0-9]+\) Name=(.*) SubmitTime=([^ ]+) EligibleTime=.* ExitCode=[0-9]+:[0-9]+ ?"
RUN = r" JobState=([^ ]+) Partition=([^ ]*) TimeLimit=[^ ]+ StartTime=([^ ]+) EndTime=([^ ]+) NodeList=([^ ]+) NodeCnt=[0-9]+ ProcCnt=[0-9]+ WorkDir="
CHUNK = 1 << 20  # bytes of the list of ended jobs that are read at once
DOUBT = 16384  # bytes: no user's text in the list is longer


def words(line):
    """Returns the words of a line, or none if they cannot be read."""
    if len(line) > LONGEST:
        return []
    try:
        return shlex.split(line.decode("utf-8"))
    except ValueError:
        return []


def allowed(argv, commands):
    return any(len(argv) == len(command) and all(map(re.fullmatch, command, argv)) for command in commands)


def hold():
    """Tells the caller that the connection works, and keeps it open until the input ends."""
    os.write(1, b"\n")
    while os.read(0, 4096):
        pass


def run(command, quiet=False):
    """Runs a program and returns its exit status."""
    return subprocess.call(command.split(), env=environment(), stderr=subprocess.DEVNULL if quiet else None)


def environment():
    # The key's line on the control node sets them.
    given = {name: os.environ[name] for name in ("PATH", "SLURM_CONF") if name in os.environ}
    return dict({"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, **given)


def states(listers):
    """Lists nodes, with the first command that supports it, and the nodes of suspended jobs. A line that begins with dashes names the part that follows."""
    for lister in listers:
        says(lists(lister).group(1))
        status = run(lister, quiet=lister != listers[-1])
        if status == 0:
            break
    else:
        return status
    says("squeue")
    status = run(SUSPENDED)
    if status == 0:
        says("completed")
    return status


def lists(lister):
    return next(filter(None, (re.fullmatch(pattern, lister) for pattern in LISTERS)), None)


def call(*argv, **options):
    return subprocess.run(argv, env=environment(), **options)


def reserved(name):
    return call("scontrol", "show", "reservation", name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def reserve(name, node):
    """Reserves a node for this user; running jobs go on."""
    if reserved(name):
        return 0
    return call(
        "scontrol", "create", "reservation", "ReservationName=" + name, "StartTime=now", "Duration=UNLIMITED", "Users=" + me(), "Nodes=" + node, "Flags=IGNORE_JOBS",
        stdout=subprocess.DEVNULL,
    ).returncode


def me():
    return pwd.getpwuid(os.geteuid()).pw_name


def ours(name):
    """Returns the options by which squeue(1) and scancel(1) select the test job. Any user may submit a job with that name, but only this user in the reservation."""
    return ["--name=" + name, "--user=" + me(), "--reservation=" + name]


def test(name, node, partition, minutes):
    """Submits the job unless it exists, and prints its number and state."""
    listed = call(
        "squeue", "--noheader", "--all", "--states=all", *ours(name), "--Format=jobid:20,state:40",
        stdout=subprocess.PIPE,
    )
    if listed.returncode != 0:
        return listed.returncode
    if listed.stdout.strip():
        os.write(1, listed.stdout)
        return 0
    made = call(
        "sbatch", "--parsable", "--job-name=" + name, "--reservation=" + name, "--partition=" + partition, "--nodelist=" + node, "--nodes=1", "--exclusive", "--no-requeue",
        "--time=" + minutes, "--chdir=/tmp", "--output=/tmp/%s.log" % name, CANARY,
        stdout=subprocess.PIPE,
    )
    if made.returncode == 0:
        os.write(1, b"%s SUBMITTED\n" % made.stdout.split(b";")[0].strip())
    return made.returncode


def release(name):
    """Ends the job and the reservation."""
    if not reserved(name):
        return 0
    call("scancel", "--quiet", *ours(name))
    return call("scontrol", "delete", "ReservationName=" + name).returncode


def jobs(position):
    """Prints, as JSON, the jobs in slurmctld's list of ended jobs from a position on, and at the end of the list those that slurmctld knows."""
    config = call("scontrol", "show", "config", stdout=subprocess.PIPE)
    if config.returncode != 0:
        return config.returncode
    settings = dict(re.findall(r"(?m)^(JobComp\w+)\s*= (.*)$", config.stdout.decode("utf-8", "replace")))
    answer = {"listed": settings.get("JobCompType") == "jobcomp/filetxt", "position": position, "more": False, "skipped": [], "jobs": []}
    if answer["listed"]:
        answer.update(ended(settings["JobCompLoc"], position))
    if not answer["more"]:
        queue = call(*QUEUE, stdout=subprocess.PIPE)
        if queue.returncode != 0:
            return queue.returncode
        for line in queue.stdout.decode("utf-8", "replace").split("\n"):
            words = line.split("|")
            if len(words) == 8:
                answer["jobs"].append(job(*words, known=True))
    os.write(1, json.dumps(answer).encode())
    return 0


def ended(path, position):
    """Reads whole lines of the list. A user's job name or directory may have newlines, and so a line that looks like another job. So a line that begins soon after an incomplete line
    is skipped, as is a line with more than one state."""
    try:
        size = os.stat(path).st_size
        if size < position:
            position = 0  # another list
        begin = max(0, position - DOUBT)
        with open(path, "rb") as file:
            file.seek(begin)
            text = file.read(position - begin + CHUNK)
    except FileNotFoundError:
        return {"position": 0}
    end = text.rfind(b"\n") + 1
    found, skipped, at, doubt = [], [], begin, -1
    for raw in text[:end].split(b"\n")[:-1]:
        start, at = at, at + len(raw) + 1
        if begin and start == begin:
            continue  # it may be the end of a line
        line = raw.decode("utf-8", "replace")
        whole = re.fullmatch(ENDED, line)
        runs = re.findall(RUN, whole.group(3)) if whole else []
        if not whole:
            if start > doubt:  # else it may be text of the same user
                skipped.append((start, line))
            doubt = start + DOUBT
        elif len(runs) != 1 or start <= doubt:
            skipped.append((start, line))
        elif start >= position:
            state, partition, began, until, nodes = runs[0]
            found.append(job(whole.group(1), whole.group(2), partition, state, whole.group(4), began, until, nodes))
    return {
        "position": max(position, begin + end), "more": begin + end < size and end > 0, "jobs": found,
        "skipped": [line[:100] for start, line in skipped if start >= position][:10],
    }


def job(number, user, partition, state, submitted, started, ended, nodes, known=False):
    nodes = "" if nodes in ("(null)", "None assigned") else nodes
    return {
        "id": int(number), "user": user, "partition": partition, "state": state, "nodes": nodes, "known": known,
        "submitted": seconds(submitted), "started": seconds(started), "ended": seconds(ended),
    }


def seconds(text):
    """Returns seconds since 1970, or 0 for an unknown time. Slurm prints times in this host's zone."""
    try:
        return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return 0


def call_back():
    """Calls the control hosts as the programs of slurmctld do, and prints, as JSON, whether one accepts the call, and what is wrong with the others."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hand_over.sh")
    done = call(script, "check", "control", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.write(1, json.dumps({"accepted": done.returncode == 0, "said": done.stderr.decode("utf-8", "replace")}).encode())
    return 0


def says(what):
    os.write(1, b"\n-- %s\n" % what.encode())


def import_rest():
    """Imports what Slurm's own commands, which are most of the calls, do not need."""
    global json, subprocess
    import json
    import subprocess


def main(line):
    argv = words(line)
    if argv == ["hold"]:
        hold()
        return 0
    if allowed(argv, COMMANDS):
        # Bytes, since the locale may have another encoding.
        os.execvpe(argv[0], [word.encode() for word in argv], environment())
    import_rest()
    if argv[:1] == ["states"] and 1 <= len(argv[1:]) <= len(LISTERS) and all(map(lists, argv[1:])):
        return states(argv[1:])
    if allowed(argv, [JOBS]):
        return jobs(int(argv[1]))
    if argv == ["call-back"]:
        return call_back()
    if allowed(argv, CANARIES):
        return {"reserve": reserve, "test": test, "release": release}[argv[1]](*argv[2:])
    if allowed(argv, [UP]):
        return call(os.path.join(os.path.dirname(os.path.abspath(__file__)), "up.sh"), argv[1]).returncode
    syslog.openlog("reconfigure", 0, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_WARNING, "refused: %.200s" % ascii(line))
    sys.stderr.write("this key may not run that command. If `reconfigure` is newer than the control node's configuration, run `reconfigure deploy`\n")
    return os.EX_NOPERM


if __name__ == "__main__":
    sys.exit(main(os.fsencode(" ".join(sys.argv[1:]))))
