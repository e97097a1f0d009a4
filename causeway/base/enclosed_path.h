// Paths that stay below a directory, whatever links are in it. A run directory may come from somebody else, as an
// archive does; what is written or deleted there must not be something of the user's elsewhere.
//
// The directory itself and what is above it are the user's own choice: links there are followed. Below it a link is
// followed as long as it leads to something below the directory, and is an Error(kIo) that names it otherwise. Every
// step is taken from the descriptor of the one before and none through a link, so that nothing can be exchanged
// meanwhile.
#pragma once

#include <filesystem>

namespace causeway {

// A descriptor of directory/below, opened with open(2)'s `flags`, which the caller closes. A file that O_CREAT makes
// has the mode 0644. Throws Error: kNotFound where there is none, kIo otherwise.
int open_enclosed(const std::filesystem::path& directory, const std::filesystem::path& below, int flags);

// Makes directory/below and what is missing on the way. It may be there. Throws Error(kIo).
void create_enclosed_directories(const std::filesystem::path& directory, const std::filesystem::path& below);

// Throws Error(kIo) where a link at or before directory/below leads out; nothing need be there.
void require_enclosed(const std::filesystem::path& directory, const std::filesystem::path& below);

}  // namespace causeway
