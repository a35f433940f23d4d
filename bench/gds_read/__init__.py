"""bench/gds-read: `tree` finds the files, `direct` reads them by O_DIRECT, `cufile` through cuFile (in a process of its
own, `child`), `main` is the command line."""
