"""Entry point of `python -m infra.local`."""

from infra.local.cli import main

raise SystemExit(main())
