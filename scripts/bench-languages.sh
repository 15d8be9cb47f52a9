#!/usr/bin/env bash
# Measures the recognition of five languages on recordings of Debian's Asterisk packages: LoadTests/languages.
# The packages (52 MB) are fetched and unpacked below .build/, not installed. Arguments go to table.py.
source "$(dirname "$0")/common.sh"

recordings=$root/.build/asterisk-sounds
environment "$root/.venv-languages" "$root/scripts/languages-bench.txt" "the tools of the measurement" \
    --no-deps
mkdir -p "$recordings"
exec 9>"$recordings/.lock"
flock 9
rm -rf "$recordings"/.work-*
trap 'rm -rf "$recordings"/.work-*' EXIT
for language in en es fr it ru; do
    [[ ! -d $recordings/$language ]] || continue
    say "fetching recordings in the language $language"
    work=$(mktemp -d "$recordings/.work-XXXXXX")
    (
        cd "$work" || exit
        run_logged "asterisk-$language" apt-get download \
            "asterisk-core-sounds-$language" "asterisk-core-sounds-$language-g722" ||
            fail "apt cannot fetch asterisk-core-sounds-$language; see .build/setup/asterisk-$language.log"
        for package in *.deb; do dpkg-deb --extract "$package" "$work/unpacked"; done
    )
    mv -T "$work/unpacked" "$recordings/$language"
    rm -rf "$work"
done
exec 9>&-
cd "$root"
exec "$root/.venv-languages/bin/python" LoadTests/languages/table.py "$recordings" "$@"
