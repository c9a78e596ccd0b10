# SPDX-License-Identifier: Apache-2.0
"""The completions, in the shells themselves, as far as they are installed."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time

import pytest

from tests.support import converter

# A command line, and words that must and words that must not be offered at its end.
CASES = [
    ("lowtide ", {"convert", "check", "inspect", "make-model"}, {"generate-docs", "m.onnx"}),
    ("lowtide conv", {"convert"}, {"check"}),
    ("lowtide --v", {"--version"}, {"--help"}),
    ("lowtide convert --weights i", {"in-place", "int4", "int8"}, {"stored", "m.onnx"}),
    ("lowtide convert --weights=i", {"in-place", "int4", "int8"}, {"stored", "m.onnx"}),
    ("lowtide convert --ver", {"--verbose", "--verify-output"}, {"--output"}),
    ("lowtide convert ", {"m.onnx"}, {"stored", "nested.onnx"}),
    ("lowtide convert m.onnx -o ", {"m.onnx"}, {"convert"}),
    ("lowtide convert m.onnx --threads 2 --io ", {"mmap", "pread"}, {"m.onnx"}),
    ("lowtide convert --threads ", set(), {"m.onnx", "mmap"}),
    ("lowtide check m.onnx ", {"m.onnx"}, {"convert"}),
    ("lowtide convert n.onnx ", {"m.onnx"}, {"convert"}),
    ("lowtide convert --shape image=1,3 ", {"m.onnx"}, {"convert"}),
    ("lowtide convert --shape=image=1,3 --dim n:x=2 ", {"m.onnx"}, {"convert"}),
    ("lowtide convert --shape image=1,3 --weights=i", {"in-place", "int4", "int8"}, {"stored", "m.onnx"}),
    ("lowtide check --dim n=1 m.onnx ", {"m.onnx"}, {"convert"}),
    ("lowtide inspect --j", {"--json"}, {"--output"}),
    ("lowtide make-model u", {"unet"}, {"duc"}),
    ("lowtide make-model --seed 3 u", {"unet"}, {"duc"}),
]


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    assert converter.run("generate-docs", folder).returncode == 0
    return folder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.onnx").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/nested.onnx").write_text("")
    return tmp_path


def need(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def environment(folder):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "XDG_CONFIG_HOME": str(folder),
    }


def judge(line, offered, wanted, unwanted):
    assert wanted <= offered and not unwanted & offered, (line, offered)


@pytest.mark.parametrize("line, wanted, unwanted", CASES)
def test_bash(line, wanted, unwanted, share, folder):
    need("bash")
    # Bash itself divides words at '=' and ':' too.
    words = [word for part in line.split(" ") for word in re.split("([=:])", part) if word or part == ""]
    script = f"""
source {shlex.quote(str(share / "bash-completion/completions/lowtide"))}
COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}
$(complete -p lowtide | sed 's/.*-F \\([^ ]*\\) .*/\\1/')  # the function runs in this shell
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-u", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    judge(line, set(done.stdout.split()), wanted, unwanted)


@pytest.mark.parametrize("line, wanted, unwanted", CASES)
def test_fish(line, wanted, unwanted, share, folder):
    need("fish")
    script = f"source {share}/fish/vendor_completions.d/lowtide.fish; complete -C {shlex.quote(line)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    # "--weights=int8<tab>description"
    offered = {row.split("\t")[0].rsplit("=", 1)[-1] for row in done.stdout.splitlines()}
    judge(line, offered, wanted, unwanted)


# What zsh's completion functions offer goes through compadd, whose matches are written to a file.
ZSH = r"""
unsetopt zle_bracketed_paste prompt_cr prompt_sp
PROMPT= LISTMAX=10000
fpath=($SHARE/zsh/site-functions $fpath)
autoload -Uz compinit
compinit -u -D
bindkey -e
bindkey '^D' list-choices
zle-line-init() { : > $READY }
zle -N zle-line-init
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
    local -a __hits
    builtin compadd -A __hits "$@"
    print -rl -- $__hits >> $SEEN
  fi
  builtin compadd "$@"
}
"""


class Zsh:
    """An interactive zsh on a terminal of its own."""

    def __init__(self, share, folder):
        self.seen, self.ready = folder / ".seen", folder / ".ready"
        (folder / ".begin").write_text(ZSH)
        variables = {**environment(folder), "SHARE": str(share), "SEEN": str(self.seen), "READY": str(self.ready)}
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execve(shutil.which("zsh"), ["zsh", "-f", "-i"], variables)
        self.enter("source .begin")

    def enter(self, keys):
        """
        Types a line, and waits until the line editor has started on the next one. The end of a command is too early:
        until the editor starts, the terminal itself takes Ctrl-D and Ctrl-U.
        """
        self.ready.unlink(missing_ok=True)
        os.write(self.terminal, keys.encode() + b"\n")
        end = time.monotonic() + 60
        while not self.ready.exists():
            assert time.monotonic() < end, "zsh does not answer"
            if select.select([self.terminal], [], [], 0.05)[0]:
                os.read(self.terminal, 65536)

    def offered(self, line):
        """Ctrl-D lists, Ctrl-U drops the line."""
        self.seen.write_text("")
        self.enter(line + "\x04\x15")
        return set(self.seen.read_text().split())

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def test_zsh(share, folder):
    need("zsh")
    shell = Zsh(share, folder)
    try:
        for line, wanted, unwanted in CASES:
            judge(line, shell.offered(line), wanted, unwanted)
    finally:
        shell.close()
