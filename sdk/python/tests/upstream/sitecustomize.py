"""Every interpreter that the tests start, such as the kernel of a notebook, uses Tenure as well."""

import os

if "TENURE_UPSTREAM_BROKER" in os.environ:
    import on_tenure  # type: ignore[import-not-found]

    on_tenure.replace_in_kiwipy(os.environ["TENURE_UPSTREAM_BROKER"])
