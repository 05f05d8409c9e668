import { createRoot } from 'react-dom/client';
import Chat from './page';

// The id of the chat is in the address, and the server has its messages.
if (!location.hash) location.hash = crypto.randomUUID();
const id = location.hash.slice(1);
const messages = await (await fetch(`/api/chat/${id}`)).json();
createRoot(document.body.appendChild(document.createElement('main'))).render(<Chat id={id} messages={messages} />);
