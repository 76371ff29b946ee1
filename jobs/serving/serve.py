#!/usr/bin/env python3
"""Serves every model below a folder of `retina-convert --repository`, by MLServer: README.md says how.

usage: serve.py FOLDER

Replaces MLServer's own command, whose imports are not only for serving. Its settings are MLServer's,
as environment variables MLSERVER_*.
"""
import asyncio
import os
import sys
from pathlib import Path

# Answers from one process, and no tracebacks to clients.
os.environ.setdefault("MLSERVER_PARALLEL_WORKERS", "0")
os.environ.setdefault("MLSERVER_DEBUG", "false")

USAGE, BAD_DATA, NO_INPUT = 64, 65, 66  # exit codes, as those of the four programs


def fail(code, problem):
    print(f"serve.py: error: {problem}", file=sys.stderr)
    sys.exit(code)


async def refuse_malformed(_, error):
    """Answers a malformed request with one line; FastAPI's own answer repeats the whole body."""
    from fastapi.responses import JSONResponse

    first, *_ = error.errors()
    place = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": f"{place}: {first['msg']}"}, 400)


async def serve(folder):
    from fastapi.exceptions import RequestValidationError
    from mlserver import MLServer, Settings
    from mlserver.repository.factory import ModelRepositoryFactory
    from mlserver.rest import errors

    class Server(MLServer):
        async def stop(self, sig=None):
            await super().stop(sig)
            if sig is None:  # a model was not loaded, and the log says why
                sys.exit(BAD_DATA)

    errors._EXCEPTION_HANDLERS[RequestValidationError] = refuse_malformed
    settings = Settings(model_repository_root=folder)
    models = await ModelRepositoryFactory.resolve_model_repository(settings).list()
    if not models:
        fail(NO_INPUT, f"{folder}: holds no model-settings.json; hint: retina-convert --repository")
    await Server(settings).start(models)


def main():
    if len(sys.argv) != 2:
        fail(USAGE, "want one folder (see the first lines of serve.py)")
    folder = sys.argv[1]
    if not Path(folder).is_dir():
        fail(NO_INPUT, f"{folder}: is not a folder")
    from mlserver.utils import install_uvloop_event_loop

    install_uvloop_event_loop()
    asyncio.run(serve(folder))


if __name__ == "__main__":
    main()
