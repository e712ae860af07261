"""The command `fastrec` without the time that Python takes to start and to import it, 0.2 s each.

`Commands(folder)` starts a server, which imports fastrec once, and writes a program `fastrec` into
a directory. The program passes its arguments, its environment and its standard streams to the
server, which forks a process for them. That process runs the same function as an installed command;
the program returns its exit code. The program `run-script` does so for a Python script, in which a
warning is an error.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import socket
import subprocess
import sys
import traceback
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LATE = ("fastrec.__main__", "fastrec.commands.export.parquet", "fastrec.commands.view.server")
"""The server imports all modules before it forks but these: pyarrow has threads, and pages do not run `view`."""
# Modules in C, and nothing to parse: `json` and `socket` take three times as long to import as
# Python to start.
_PROGRAM = """#!{python} -IS
import _socket, marshal, os, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
said = marshal.dumps([sys.argv, os.getcwd(), dict(os.environ)])
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([len(said).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(said)
code = server.recv(1)
sys.exit(code[0] if code else "the command has died")
"""


class Commands:
    """A server for commands, and a program that uses it."""

    def __init__(self, folder: Path) -> None:
        address = str(folder / "server")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.services.commands", address]
        self._server = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._server.stdout
        assert self._server.stdout.readline() == b"ready\n"
        self.folder = folder / "bin"
        """The directory of the program, for PATH."""
        self.folder.mkdir()
        for name in ("fastrec", "run-script"):
            program = self.folder / name
            program.write_text(_PROGRAM.format(python=sys.executable, address=address))
            program.chmod(0o755)

    def close(self) -> None:
        """Stop the server."""
        self._server.kill()
        self._server.communicate()


class _NoPandas:
    """Hides pandas, which is not installed with fastrec. pyarrow would import it for each Parquet
    export, in 0.4 s.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _serve(address: str) -> None:
    from fastrec.commands.generate.text import phrase_tables  # noqa: PLC0415

    for module in pkgutil.walk_packages([str(ROOT / "fastrec")], "fastrec."):
        if module.name not in _LATE:
            importlib.import_module(module.name)
    phrase_tables(0)  # 0.2 s for each `fastrec generate` without a seed
    gc.freeze()  # else collecting in a forked process copies all of this
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        # Standard input ends with the process of the tests.
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                _answer(connection)
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass


def _answer(connection: socket.socket) -> None:
    """Run one command in this process, with the streams of its caller, and exit."""
    size, streams, *_ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as said:
        arguments, folder, environment = marshal.loads(said.read(int.from_bytes(size, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.modules["__main__"] = types.ModuleType("__main__")  # which new workers would import
    is_script = Path(arguments[0]).name == "run-script"
    if not is_script:
        sys.meta_path.insert(0, _NoPandas())  # type: ignore[arg-type]
    code = _run_script(arguments[1:]) if is_script else _run()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    connection.sendall(bytes([code]))
    os._exit(code)


def _run() -> int:
    from fastrec.cli import main  # noqa: PLC0415

    try:
        main()
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else 0 if exc.code is None else 1
    return 0


def _run_script(arguments: list[str]) -> int:
    sys.argv = arguments
    warnings.simplefilter("error")
    sys.path.insert(0, str(Path(arguments[0]).parent))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
