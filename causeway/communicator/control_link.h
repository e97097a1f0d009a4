// A connection between two ranks of the control plane, over which messages go both ways (control_message.h).
#pragma once

#include <boost/asio.hpp>
#include <functional>
#include <memory>
#include <string>

#include "causeway/communicator/control_message.h"

namespace causeway::communicator {

// Used by the thread that runs the socket's io_context.
class ControlLink : public std::enable_shared_from_this<ControlLink> {
 public:
  explicit ControlLink(boost::asio::ip::tcp::socket socket);

  // What cannot be sent at once is lost: then nobody reads.
  void send(const ControlMessage& message);
  // Calls one of them for the next message or the end, and is silent then until it is called again. What makes no
  // sense is an end, with what is wrong with it.
  void read(std::function<void(const ControlMessage&)> on_message, std::function<void(const std::string&)> on_end);
  // Neither of them is called any more.
  void close();

 private:
  boost::asio::ip::tcp::socket socket_;
  boost::asio::streambuf incoming_;
  bool closed_ = false;
};

}  // namespace causeway::communicator
