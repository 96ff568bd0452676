"""The command that prints a shell's completion script, which click makes."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in SHELL. One line in its start-up file is enough:

    \b
      ~/.bashrc                     eval "$(medallion completion bash)"
      ~/.zshrc                      eval "$(medallion completion zsh)"
      ~/.config/fish/config.fish    medallion completion fish | source
    """
    script = get_completion_class(shell)
    assert script is not None, "click has all of SHELLS"
    click.echo(script(context.find_root().command, {}, "medallion", "_MEDALLION_COMPLETE").source())
