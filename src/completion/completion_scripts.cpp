#include "src/completion/completion_scripts.h"

namespace optrace {
namespace {

// In a Python environment, `optrace` is a Python script. Starting Python takes longer than all
// else, so the scripts call the program that it runs, with the Python that it would name.

// Bash splits words at `=` and `:` too, and replaces only what is behind the last of them.
constexpr std::string_view kBash =
    R"sh(# bash completion for optrace, made by `optrace completions bash`.
_optrace() {
    local -a words=()
    local word previous='' i
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((${#words[@]})) && [[ $word == [=:]* || $previous == *[=:] ]] && [[ $previous != '' ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        previous=$word
    done
    local current=${words[-1]-}
    local kept=${current%"${current##*[=:]}"}
    local value help line compiled
    local program
    program=$(type -P -- "${COMP_WORDS[0]/#\~/$HOME}") || return
    local folder=${program%/*}
    for compiled in "$folder"/../lib/python3*/site-packages/optrace/bin/optrace; do
        [[ -x $compiled ]] || continue
        program=$compiled
        local -x OPTRACE_PYTHON=${OPTRACE_PYTHON:-$folder/python}
    done
    COMPREPLY=()
    while IFS=$'\t' read -r value help; do
        if [[ $value == :files ]]; then
            local file=${current#"$kept"}
            [[ $kept == *=* || $kept == '' ]] || file=$current
            compopt -o filenames
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$file")
        else
            [[ $value == *[.:=] ]] && compopt -o nospace
            COMPREPLY+=("${value#"$kept"}")
        fi
    done < <("$program" __complete "${words[@]}" 2>/dev/null)
}
complete -F _optrace optrace
)sh";

constexpr std::string_view kZsh = R"sh(#compdef optrace
# zsh completion for optrace, made by `optrace completions zsh`.
_optrace() {
    local value help
    local -a words_shown open open_shown
    local -a closed closed_shown
    local files=0
    local program=${${(Q)words[1]}/#\~/$HOME}
    [[ $program == */* ]] || program=$commands[$program]
    local -a compiled=(${program:h}/../lib/python3*/site-packages/optrace/bin/optrace(N-*))
    if (($#compiled)); then
        local -x OPTRACE_PYTHON=${OPTRACE_PYTHON:-${program:h}/python}
        program=$compiled[1]
    fi
    while IFS=$'\t' read -r value help; do
        if [[ $value == :files ]]; then
            files=1
        elif [[ $value == *[.:=] ]]; then
            open+=("$value")
        else
            closed+=("$value")
            closed_shown+=("$value${help:+  -- $help}")
        fi
    done < <("$program" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (($#closed)) && compadd -l -d closed_shown -a closed
    (($#open)) && compadd -S '' -a open
    if ((files)); then
        compset -P '--*='
        _files
    fi
}
if [[ $funcstack[1] == _optrace ]]; then
    _optrace "$@"
else
    compdef _optrace optrace
fi
)sh";

constexpr std::string_view kFish =
    R"sh(# fish completion for optrace, made by `optrace completions fish`.
function __optrace_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (command -s $words[1])
    set -l folder (string replace -r '/[^/]*$' '' -- $program)
    set -l compiled $folder/../lib/python3*/site-packages/optrace/bin/optrace
    if set -q compiled[1]
        set -q OPTRACE_PYTHON; or set -lx OPTRACE_PYTHON $folder/python
        set program $compiled[1]
    end
    $program __complete $words[2..-1] "$current" 2>/dev/null
end
function __optrace_takes_files
    __optrace_candidates | string match -q ':files'
end
complete -c optrace -f
complete -c optrace -f -a "(__optrace_candidates | string match -v ':files')"
complete -c optrace -n __optrace_takes_files -F
)sh";

}  // namespace

std::array<CompletionScript, 3> completion_scripts() {
  return {{{"bash", "optrace", kBash}, {"zsh", "_optrace", kZsh}, {"fish", "optrace.fish", kFish}}};
}

}  // namespace optrace
