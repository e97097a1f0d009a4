#!/usr/bin/env bash
# tools/release.sh VERSION
# Prepares a release: checks that the tree is clean and that CMakeLists.txt and CHANGELOG.md speak of VERSION, then
# creates the annotated tag vVERSION, whose text is the changelog's. Nothing is pushed. CONTRIBUTING.md has the checklist.
set -euo pipefail

fail() {
  echo "error: $1" >&2
  echo "$2" >&2
  exit 1
}

version=${1:?usage: tools/release.sh VERSION, for example tools/release.sh 0.2.0}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$ ]] ||
  fail "'$version' is not a semantic version" "Give three numbers: 0.2.0. Before 1.0.0 the second changes with what breaks."
tag=v$version
[ -z "$(git status --porcelain)" ] ||
  fail "the working tree has changes that are not committed" "Commit or stash them: git status lists them."
! git rev-parse -q --verify "refs/tags/$tag" > /dev/null ||
  fail "the tag $tag exists" "A released version stays as it is: choose the next one."

built=$(sed -n 's/^project(causeway VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
[ "$built" = "$version" ] ||
  fail "CMakeLists.txt builds version $built" "Write project(causeway VERSION $version ...) and commit it."

newest=$(git tag --list 'v[0-9]*' | sed 's/^v//' | sort -V | tail -n 1)
[ -z "$newest" ] || [ "$(printf '%s\n' "$newest" "$version" | sort -V | tail -n 1)" = "$version" ] ||
  fail "version $newest was released before, and is newer" "Choose a version above it."

section() { awk -v heading="## $1" '/^## / { inside = index($0, heading) == 1 } inside' CHANGELOG.md; }
entry=$(section "$version (")
[[ $entry =~ ^"## $version ("[0-9]{4}-[0-9]{2}-[0-9]{2}")" ]] ||
  fail "CHANGELOG.md has no heading '## $version (YYYY-MM-DD)'" "Move what is under Unreleased to it, with today's date."
text=$(tail -n +2 <<< "$entry" | sed '/./,$!d')
[ -n "$text" ] || fail "CHANGELOG.md says nothing of $version" "Write what changes for a user."
unreleased=$(section Unreleased | tail -n +2 | tr -d '[:space:]')
[ -z "$unreleased" ] ||
  fail "CHANGELOG.md still has changes under Unreleased" "Move them to '## $version (YYYY-MM-DD)'."

# Headings of the changelog begin with #, which git would take for comments.
git tag --annotate "$tag" --cleanup=whitespace --message "Causeway $version

$text"
echo "Created the tag $tag at $(git rev-parse --short HEAD). Look at it with: git show $tag"
echo "To publish it: git push origin $tag. To take it back: git tag -d $tag"
