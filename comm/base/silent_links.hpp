#pragma once

namespace cohort {

/// While an object of this class lives, connections that break fall silent for its thread: see
/// silent_links.cpp. For threads that call MPI.
class SilentLinks {
public:
    SilentLinks() noexcept;
    SilentLinks(const SilentLinks&) = delete;
    SilentLinks& operator=(const SilentLinks&) = delete;
    ~SilentLinks();

private:
    bool before_;
};

}  // namespace cohort
