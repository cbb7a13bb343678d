"""What differs between POSIX and Windows about programs that we start: their trees of processes and command lines.

Terms:
  tree: a program and all that it starts; a process group on POSIX, a job object on Windows
  batch file: a `.cmd` or `.bat` file, which Windows runs with `cmd.exe`

Rule: the parts for Windows are tried on Linux over a stand-in for the kernel (tests/windows); they never ran on Windows
itself.

Entry points: `process_tree.ProcessTree`, `program_words.program_words`, `start_piped.start_piped`.
Must not import: any other package of ours.
"""
