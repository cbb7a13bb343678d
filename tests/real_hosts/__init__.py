"""Real hosts, as npm has them, with the aggregator as a stranger installs it, and a model that plays a script.

`sh scripts/try-hosts` runs it: Claude Code, Codex and Gemini CLI, each in an empty home. No test of the suite needs one
of these programs; what is tested there is the scripted model.

Terms:
  host: the program that npm installed, started as a person would start it, without a terminal
  scripted model: an HTTP server on loopback that speaks the API of the host's maker and asks for one tool after another
  step: one tool that the model asks for
  trial: one question put to every host, such as which names it shows to the model
"""
