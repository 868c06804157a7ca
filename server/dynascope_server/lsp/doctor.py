"""dynascope.doctor: the engine's own checks, in the user's interpreter, as a document."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING, Any

from dynascope_server.ide.addresses import Address
from dynascope_server.interpreter import engine_command, find_interpreter, program_environment
from dynascope_server.lsp.runs import Refused

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

DOCTOR_SECONDS = 120
NOT_RUN = -1
"""Stands for the exit code where the command could not be run to its end."""


async def run_doctor(server: DynascopeServer) -> dict[str, Any]:
    if not server.settings.trusted:
        raise Refused("This workspace is not trusted, so its Python is not run. Trust it to run the doctor.")
    code, text = await asyncio.to_thread(_doctor, server)
    uri = server.documents.put(Address("", "doctor.txt"), text)
    server.show_document(uri, None)
    return {"exitCode": code, "text": text, "uri": uri}


def _doctor(server: DynascopeServer) -> tuple[int, str]:
    folder = server.workspace_folder() or os.getcwd()
    environment = program_environment(server.settings, os.environ)
    interpreter = find_interpreter(server.settings, folder, environment.get("PATH"))
    if interpreter is None:
        return NOT_RUN, "no Python interpreter was found: name one in Dynascope's settings\n"
    command = engine_command(interpreter, "doctor")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOCTOR_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return NOT_RUN, f"{interpreter} -m dynascope doctor: {error}\n"
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")
